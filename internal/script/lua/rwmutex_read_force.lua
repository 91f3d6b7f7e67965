-- Free a read lock of all readers. A writer and its read holds stay.
-- USES  foreign inspect rwmutex
-- KEYS  1 the lock
--       2 the channel of the waiters
--       3 prefix of all readers' keys
-- ARGV  1 PUBLISH or SPUBLISH
-- RETURN  1 freed, 0 not held by readers
if redis.call('hget', KEYS[1], 'mode') ~= 'read' then return 0 end
if not lock(KEYS[1], FEW) then return foreign(KEYS[1]) end
-- The keys of the first readers are deleted, too. Those of further readers expire.
local found, cursor = nil, '0'
repeat
  found, cursor = page(KEYS[1], cursor)
  for i = 1, #found, 2 do
    local count = party(found[i], found[i + 1]) == 'reader' and depth(found[i + 1]) or 0
    for n = 1, math.min(count, steps) do
      redis.call('unlink', KEYS[3] .. ':' .. found[i] .. ':rwlock_timeout:' .. n)
    end
    steps = steps - math.max(2 * count, 1)
  end
until cursor == '0' or steps <= 0
redis.call('unlink', KEYS[1])
redis.call(ARGV[1], KEYS[2], '0')
return 1
