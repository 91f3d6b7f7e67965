-- The release of a write lock. The scripts that call it say what KEYS and ARGV are.

-- leave_write releases a write lock. It returns the reply, or nil if the lock is free now.
local function leave_write(publish)
  if not found[1] then
    if leave(KEYS[2], ARGV[1], clock()) and found[2] ~= 'write' then
      redis.call(publish, KEYS[3], '1') -- new readers are allowed again
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
  if settle(KEYS[1], KEYS[4]) then return 1 + left(publish, KEYS[3]) end -- the writer's read holds stay, and others may read, too
end
