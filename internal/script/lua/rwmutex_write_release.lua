-- Leave a write lock once, or give it up, or stop waiting for it. Running it twice does what running it once does.
-- KEYS  1 the lock
--       2 the writers that wait and want to be let in first
--       3 the channel that waiters listen to
--       4 what the names of all readers' keys begin with
-- ARGV  1 the writer's field
--       2 how often it will be held afterwards: 0 gives it up
--       3 PUBLISH or SPUBLISH
-- RETURN  0  the owner does not hold it
--         1 + the clients that heard of it, or 1 if it is still held
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  if leave(KEYS[2], ARGV[1], clock()) and redis.call('hget', KEYS[1], 'mode') ~= 'write' then
    redis.call(ARGV[3], KEYS[3], '1') -- readers may come in again
  end
  return 0
end
if ARGV[2] ~= '0' then
  -- A server that is out of memory refuses HSET, unless the script has written before.
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
redis.call('hdel', KEYS[1], ARGV[1])
settle(KEYS[1], KEYS[4]) -- what the writer has read goes on, and others may read, too
return 1 + left(ARGV[3], KEYS[3])
