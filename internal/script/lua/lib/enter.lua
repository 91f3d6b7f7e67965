-- The acquisition of a write lock. The scripts that call it say what KEYS and ARGV are.

-- enter acquires a write lock. It returns nil if the writer holds it now, and otherwise how many ms others hold it, -1 without end.
local function enter()
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
    else
      ms = alive and math.min(longest, ttl) or 1 -- 1: too many dead readers to check all of them: the next call continues
    end
  end
  if ttl == -2 then
    if ARGV[3] ~= '1' then return 0 end
    redis.call('hset', KEYS[1], 'mode', 'write')
  elseif not holds then
    if ARGV[4] ~= '0' then
      redis.call('zadd', KEYS[2], clock() + ARGV[4], ARGV[2])
      redis.call('pexpire', KEYS[2], ARGV[4])
    end
    return ms
  end
  redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
  if ttl < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
  end
  if waits then redis.call('zrem', KEYS[2], ARGV[2]) end
end
