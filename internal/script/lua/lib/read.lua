-- The release of a read lock by one of several readers, or of one of several holds. It ends the script, unless the lock is free now.
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 owner
--       2 hold count of the owner afterwards
if not freed then
  local count = depth(found[1])
  if not count then return foreign(KEYS[1]) end
  local left, longest = tonumber(ARGV[2]), 0
  local prefix = KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:'
  for i = math.max(count, left), math.max(left, 1), -1 do
    local own = prefix .. i
    longest = math.max(longest, redis.call('pttl', own))
    if i > left then redis.call('unlink', own) end
  end
  if left > 0 then
    -- The remaining holds last as long as the longest hold did. The order of the commands matters if memory is full.
    if longest > 0 and redis.call('pexpire', prefix .. left, longest) == 0 then
      redis.call('set', prefix .. left, '1', 'px', longest)
    end
    redis.call('hset', KEYS[1], ARGV[1], left)
    return 1
  end
  redis.call('hdel', KEYS[1], ARGV[1])
  if found[2] == 'write' then return 1 end -- the owner is a writer with a read hold
  -- The lock lasts as long as its last reader. Dead readers do not count.
  local ttl = redis.call('pttl', KEYS[1])
  if longest + SLACK < ttl and redis.call('hlen', KEYS[1]) > 1 then return 1 end -- another reader lasts longest
  longest = readers(KEYS[1], KEYS[2], ttl)
  if longest > 0 then
    if longest ~= ttl and longest < math.huge then redis.call('pexpire', KEYS[1], longest) end
    return 1
  end
  redis.call('del', KEYS[1])
end
