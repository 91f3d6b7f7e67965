-- The readers of a read/write lock.
-- The lock is a hash: mode -> read or write, a reader -> its count, a writer with :write appended -> its count.
-- Each hold of a reader has a key of its own, which says how long that hold lasts.

-- readers returns how long the last of all readers has, or 0 if none is alive. It stops where the answer is at least enough.
-- root is what the names of all readers' keys begin with.
local function readers(lock, root, enough)
  local longest = 0
  local fields = redis.call('hkeys', lock)
  for i = #fields, 1, -1 do -- who came last is likely to stay longest
    local count = tonumber(redis.call('hget', lock, fields[i])) or 0
    local own = 0
    for n = count, 1, -1 do
      own = math.max(own, redis.call('pttl', root .. ':' .. fields[i] .. ':rwlock_timeout:' .. n))
    end
    longest = math.max(longest, own)
    if longest > 0 and longest >= enough then return longest end
    if own == 0 and count > 0 and string.sub(fields[i], -6) ~= ':write' then
      redis.call('hdel', lock, fields[i]) -- dead
    end
  end
  return longest
end

-- settle makes the lock one of its readers, after its writer has left, or deletes it if there are none.
local function settle(lock, root)
  local longest = readers(lock, root, math.huge)
  if longest > 0 then
    redis.call('hset', lock, 'mode', 'read')
    redis.call('pexpire', lock, longest)
  else
    redis.call('del', lock)
  end
end

-- left tells who waits that a writer has left, and returns how many clients heard it. 1 wakes all threads of Redisson that
-- sleep. One that has asked and does not sleep yet would miss that and wait for the whole lease; 0 is kept for it.
local function left(publish, channel)
  local heard = redis.call(publish, channel, '1')
  redis.call(publish, channel, '0')
  return heard
end
