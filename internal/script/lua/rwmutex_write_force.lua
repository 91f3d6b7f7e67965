-- Free a write lock, whichever owner holds it. Readers, and the writer's read holds, stay.
-- USES  foreign inspect rwmutex readers settle left
-- KEYS  1 the lock
--       2 the channel of the waiters
--       3 prefix of all readers' keys
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
