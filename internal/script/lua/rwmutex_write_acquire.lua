-- Acquire a write lock, or reenter it. Idempotent.
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 prefix of all readers' keys
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 hold count afterwards: 1, or more to reenter
--       4 if the writer has to wait, for how many ms new readers are kept out; 0: they are not
-- RETURN  > 0   acquired; a token above those of all earlier grants
--         <= 0  held by others, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local waits = redis.call('zscore', KEYS[2], ARGV[2])
local holds = ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1
local ms = ttl
if ttl > 0 and not holds and ARGV[3] == '1' and redis.call('hget', KEYS[1], 'mode') == 'read' then
  -- The hash may outlive its readers, see lib/rwmutex.lua.
  local longest, alive = readers(KEYS[1], KEYS[3], ttl)
  if longest == 0 then
    redis.call('del', KEYS[1])
    ttl = -2
  elseif not alive then
    ms = 1 -- too many dead readers to check all of them: the next call continues
  end
end
if ttl == -2 then
  if ARGV[3] ~= '1' then return -1 end
  redis.call('hset', KEYS[1], 'mode', 'write')
elseif not holds then
  if ARGV[4] ~= '0' then
    redis.call('zadd', KEYS[2], clock() + ARGV[4], ARGV[2])
    redis.call('pexpire', KEYS[2], ARGV[4])
  end
  return held(ms)
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if waits then redis.call('zrem', KEYS[2], ARGV[2]) end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
