-- Take a write lock from whoever holds it. Readers, and what the writer has read, are left alone.
-- KEYS  1 the lock
--       2 the channel that waiters listen to
--       3 what the names of all readers' keys begin with
-- ARGV  1 PUBLISH or SPUBLISH
-- RETURN  1 freed, 0 not held by a writer
if redis.call('hget', KEYS[1], 'mode') ~= 'write' then return 0 end
if redis.call('hlen', KEYS[1]) > 100000 or not lock(KEYS[1], FEW) then return foreign(KEYS[1]) end
local cursor = '0'
repeat
  local found = redis.call('hscan', KEYS[1], cursor, 'match', '*:write', 'count', 1000)
  for i = 1, #found[2], 2 do redis.call('hdel', KEYS[1], found[2][i]) end
  cursor = found[1]
until cursor == '0'
settle(KEYS[1], KEYS[3])
left(ARGV[1], KEYS[2])
return 1
