-- Take a read lock from all readers. A writer, and what it reads, is left alone.
-- KEYS  1 the lock
--       2 the channel that waiters listen to
--       3 what the names of all readers' keys begin with
-- ARGV  1 PUBLISH or SPUBLISH
-- RETURN  1 freed, 0 not held by readers
if redis.call('hget', KEYS[1], 'mode') ~= 'read' then return 0 end
for _, reader in ipairs(redis.call('hkeys', KEYS[1])) do
  for n = 1, tonumber(redis.call('hget', KEYS[1], reader)) or 0 do
    redis.call('del', KEYS[3] .. ':' .. reader .. ':rwlock_timeout:' .. n)
  end
end
redis.call('del', KEYS[1])
redis.call(ARGV[1], KEYS[2], '0')
return 1
