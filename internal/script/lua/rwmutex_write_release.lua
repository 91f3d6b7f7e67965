-- Release a write lock once, free it, or stop waiting for it. Idempotent.
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 the channel of the waiters
--       4 prefix of all readers' keys
-- ARGV  1 the writer's field
--       2 hold count afterwards: 0 frees it
--       3 PUBLISH or SPUBLISH
-- RETURN  0  the owner does not hold it
--         1 + the number of clients that received the message, or 1 if it is still held
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  if leave(KEYS[2], ARGV[1], clock()) and redis.call('hget', KEYS[1], 'mode') ~= 'write' then
    redis.call(ARGV[3], KEYS[3], '1') -- new readers are allowed again
  end
  return 0
end
if ARGV[2] ~= '0' then
  -- A server that is out of memory refuses HSET, unless the script has written already.
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
redis.call('hdel', KEYS[1], ARGV[1])
settle(KEYS[1], KEYS[4]) -- the writer's read holds stay, and others may read, too
return 1 + left(ARGV[3], KEYS[3])
