-- Acquire a mutex, or queue for it. Idempotent. The same call confirms a mutex that mutex_pass has granted.
-- KEYS  1 the lock
--       2 the queue: see lib/pass.lua
-- ARGV  1 lease time in ms
--       2 owner
-- RETURN  > 0  acquired; a token above those of all earlier grants
--         or a list: -1 - the remaining ms (0 if it never expires) of the owner that holds it; the place in the queue (0: not queued)
local ttl = redis.call('pttl', KEYS[1])
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
if ttl ~= -2 and redis.call('hexists', KEYS[1], 'mode') == 1 then return {-1 - ttl, 0} end -- a read/write lock: its release uses no queue
if ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  -- The queue may hold data of another type, and a server that is out of memory refuses to add to it.
  if type(redis.pcall('zadd', KEYS[2], 'nx', string.format('%.0f', now * 2 + (tonumber(ARGV[1]) < GRANT and 1 or 0)), ARGV[2])) == 'table' then return {-1 - ttl, 0} end
  redis.call('pexpire', KEYS[2], 300000)
  return {-1 - ttl, redis.call('zrank', KEYS[2], ARGV[2]) + 1}
end
redis.call('hset', KEYS[1], ARGV[2], 1)
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
redis.pcall('zrem', KEYS[2], ARGV[2])
return now
