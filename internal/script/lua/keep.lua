-- Keep a lock for a time after its holder has released it. It then expires. Idempotent. The field of the owner gets another name, with a
-- 0 before the number, so that a renewal that arrives late does not extend the lock. The leader of an election is no leader any more.
-- USES  raise tell
-- KEYS  1 the lock
-- ARGV  1 owner
--       2 for how many ms
--       3 the channel of the waiters: not a key, since a migrating slot would refuse the call
--       4 PUBLISH or SPUBLISH
-- RETURN  1 kept, 0 the owner does not hold it
local kept = string.gsub(ARGV[1], ':', ':0', 1)
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.call('hexists', KEYS[1], kept) end
local function rename()
  redis.call('hset', KEYS[1], kept, redis.call('hget', KEYS[1], ARGV[1]))
  redis.call('hdel', KEYS[1], ARGV[1], 'leader')
end
if redis.call('hlen', KEYS[1]) > 1 + redis.call('hexists', KEYS[1], 'mode') + redis.call('hexists', KEYS[1], 'leader') then
  raise(KEYS[1], ARGV[2]) -- the writer of a read/write lock has a read hold, which may last longer
  rename()
  return 1
end
local ttl = redis.call('pttl', KEYS[1])
redis.call('pexpire', KEYS[1], ARGV[2]) -- before HSET, which a server that is out of memory refuses as the first write
rename()
-- Waiters expect the old end. They ask again and see the new one.
if ttl == -1 or ttl - ARGV[2] > 100 then tell(ARGV[4], ARGV[3], '0') end
return 1
