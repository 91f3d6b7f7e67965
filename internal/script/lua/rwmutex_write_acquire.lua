-- Take a write lock, or enter it again. Running it twice does what running it once does.
-- KEYS  1 the lock
--       2 the writers that wait and want to be let in first
--       3 what the names of all readers' keys begin with
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 how often it will be held afterwards: 1, or more to enter again
--       4 for how many ms no reader may come in before the writer if it has to wait; 0: readers may
-- RETURN  > 0   taken; a token above those of all earlier grants
--         <= 0  held by others, or, to enter again, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local waits = redis.call('zscore', KEYS[2], ARGV[2])
local holds = ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1
local ms = ttl
if ttl > 0 and not holds and ARGV[3] == '1' and redis.call('hget', KEYS[1], 'mode') == 'read' then
  -- The hash may outlive its readers, see lib/rw.lua.
  local longest, alive = readers(KEYS[1], KEYS[3], ttl)
  if longest == 0 then
    redis.call('del', KEYS[1])
    ttl = -2
  elseif not alive then
    ms = 1 -- so many were dead that not all were looked at: the next call goes on
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
