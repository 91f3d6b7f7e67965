-- Set or delete a value if it is the expected one. Idempotent.
-- USES  once tell
-- KEYS  1 the value
--       2 the mark of the request series
-- ARGV  1 the expected value
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the channel of those who watch the value
--       5 PUBLISH or SPUBLISH
--       6 set or del
--       7 the new value
-- RETURN  1 done, 0 there was another value, or none
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'done' and 1 or 0 end
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  -- A server that is out of memory refuses SET, unless the script has written already.
  redis.call('del', KEYS[2])
  remember(KEYS[2], ARGV[2], 'other', ARGV[3])
  return 0
end
if ARGV[6] == 'del' then
  redis.call('del', KEYS[1])
else
  redis.call('set', KEYS[1], ARGV[7])
end
remember(KEYS[2], ARGV[2], 'done', ARGV[3])
tell(ARGV[5], ARGV[4], '')
return 1
