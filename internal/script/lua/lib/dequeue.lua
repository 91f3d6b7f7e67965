-- How an owner leaves the queue when it has the lock.

-- dequeue removes an owner that has the lock. If it was in the queue, another one may be the first now.
local function dequeue(member, lease, publish)
  if redis.pcall('zrem', queue, entry(member, lease)) == 1 then tell_first(publish, tonumber(lease)) end
end
