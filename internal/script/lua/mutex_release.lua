-- Release a mutex once, or free it. Idempotent.
-- KEYS  1 the lock
-- ARGV  1 owner
--       2 hold count of the owner afterwards: 0 frees it
--       3 the channel of the waiters: not a key, since a migrating slot would refuse the call
--       4 PUBLISH or SPUBLISH
-- RETURN  0  the owner does not hold it; nothing was done
--         1 + the number of clients that received the message, or 1 if it is still held
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if ARGV[2] == '0' then
  redis.call('del', KEYS[1])
  return 1 + redis.call(ARGV[4], ARGV[3], '0')
end
-- A server that is out of memory refuses HSET, unless the script has written already.
local ttl = redis.call('pttl', KEYS[1])
if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
return 1
