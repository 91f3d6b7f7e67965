-- leave_read releases a read lock. It returns the reply, or nil if the lock is free now. The scripts that call it say what KEYS and
-- ARGV are.
local function leave_read()
  local value = redis.call('hget', KEYS[1], ARGV[1])
  if not value then return 0 end
  local count = depth(value)
  if not count then return foreign(KEYS[1]) end
  local left = tonumber(ARGV[2])
  local longest = 0
  for i = math.max(count, left), math.max(left, 1), -1 do
    local own = KEYS[2] .. ':' .. i
    if redis.call('type', own).ok == 'string' then
      longest = math.max(longest, redis.call('pttl', own))
      if i > left then redis.call('del', own) end
    end
  end
  if left > 0 then
    -- The remaining holds last as long as the longest hold did. The order of the commands matters if memory is full.
    if longest > 0 and redis.call('pexpire', KEYS[2] .. ':' .. left, longest) == 0 then
      redis.call('set', KEYS[2] .. ':' .. left, '1', 'px', longest)
    end
    redis.call('hset', KEYS[1], ARGV[1], left)
    return 1
  end
  redis.call('hdel', KEYS[1], ARGV[1])
  if redis.call('hget', KEYS[1], 'mode') == 'write' then return 1 end -- the owner is a writer with a read hold
  -- The lock lasts as long as its last reader. Dead readers do not count.
  local ttl = redis.call('pttl', KEYS[1])
  -- Time passes between two commands, so a difference of a few ms is ignored.
  if longest + 10 < ttl and redis.call('hlen', KEYS[1]) > 1 then return 1 end -- another reader lasts longest
  longest = readers(KEYS[1], KEYS[4], ttl)
  if longest > 0 then
    if longest ~= ttl and longest < math.huge then redis.call('pexpire', KEYS[1], longest) end
    return 1
  end
  redis.call('del', KEYS[1])
end
