-- Set the number of permits, unless it is set. Idempotent.
-- USES  once
-- KEYS  1 the number of free permits
--       2 the mark of the request series
--       3 the channel of the waiters
-- ARGV  1 how many
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PUBLISH or SPUBLISH
--       5 TTL in ms; 0: for ever
-- RETURN  1 set, 0 it was set before
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
if redis.call('exists', KEYS[1]) == 1 then
  remember(KEYS[2], ARGV[2], 'exists', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
if ARGV[5] ~= '0' then redis.call('pexpire', KEYS[1], ARGV[5]) end
remember(KEYS[2], ARGV[2], 'set', ARGV[3])
redis.pcall(ARGV[4], KEYS[3], ARGV[1]) -- the change is made even if the user may not publish
return 1
