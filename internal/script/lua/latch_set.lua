-- Set the count of a latch, of a closed one only if told to. Idempotent.
-- USES  once int64 tell
-- KEYS  1 the count
--       2 the mark of the request series
-- ARGV  1 the count
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PUBLISH or SPUBLISH
--       5 the channel of the waiters: not a key, since it may be in another slot
--       6 1 to set the count of a closed latch, too
-- RETURN  1 set, 0 it was closed before
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
if ARGV[6] == '1' then
  number(KEYS[1]) -- fails on other data
elseif redis.call('exists', KEYS[1]) == 1 then
  remember(KEYS[2], ARGV[2], 'exists', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[2], 'set', ARGV[3])
tell(ARGV[4], ARGV[5], '1')
return 1
