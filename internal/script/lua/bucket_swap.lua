-- Set or delete a value and return the old one. Idempotent.
-- USES  once tell
-- KEYS  1 the value
--       2 the mark of the request series
--       3 where the request series keeps the old value
-- ARGV  1 how long to keep the old value, in ms
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the channel of those who watch the value
--       5 PUBLISH or SPUBLISH
--       6 set or del
--       7 the new value
--       8.. options of SET
-- RETURN  the old value, or nothing
local known = recall(KEYS[2], ARGV[2])
if known then
  local old = known == 'old' and redis.call('get', KEYS[3])
  if known == 'old' and not old then return redis.error_reply('ERR done long ago: the old value is not kept any more') end
  return old
end
redis.call('strlen', KEYS[3]) -- fails on a key of another type
local old = redis.call('get', KEYS[1])
if ARGV[6] == 'del' then
  redis.call('del', KEYS[1])
else
  redis.call('set', KEYS[1], ARGV[7], unpack(ARGV, 8))
end
-- The mark is kept longer than the old value, which may be large.
remember(KEYS[2], ARGV[2], old and 'old' or 'none', ARGV[3])
if old then redis.call('set', KEYS[3], old, 'px', ARGV[1]) end
tell(ARGV[5], ARGV[4], '')
return old
