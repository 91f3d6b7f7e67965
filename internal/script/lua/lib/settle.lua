-- settle changes the mode to read after the writer has released the lock, or deletes the lock if there are no readers. It reports
-- whether there are.
local function settle(lock, root)
  local ttl = redis.call('pttl', lock)
  local longest = readers(lock, root, ttl)
  if longest == 0 then
    redis.call('del', lock)
    return false
  end
  redis.call('hset', lock, 'mode', 'read')
  if longest ~= ttl and longest < math.huge then redis.call('pexpire', lock, longest) end
  return true
end
