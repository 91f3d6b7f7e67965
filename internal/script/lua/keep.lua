-- Keep a lock for a time after its holder has released it. It then expires. Idempotent.
-- KEYS  1 the lock
-- ARGV  1 owner
--       2 for how many ms
--       3 the channel of the waiters: not a key, since a migrating slot would refuse the call
--       4 PUBLISH or SPUBLISH
-- RETURN  1 kept, 0 the owner does not hold it
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('hlen', KEYS[1]) > 1 + redis.call('hexists', KEYS[1], 'mode') then
  raise(KEYS[1], ARGV[2]) -- the writer of a read/write lock has a read hold, which may last longer
  return 1
end
local ttl = redis.call('pttl', KEYS[1])
redis.call('pexpire', KEYS[1], ARGV[2])
-- Waiters expect the old end. They ask again and see the new one.
if ttl == -1 or ttl - ARGV[2] > 100 then tell(ARGV[4], ARGV[3], '0') end
return 1
