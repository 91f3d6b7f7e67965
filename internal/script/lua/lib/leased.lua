-- split returns the ids in a string of ids.
local function split(row)
  local ids = {}
  for at = 1, #row, 16 do ids[#ids + 1] = string.sub(row, at, at + 15) end
  return ids
end
local FOREVER = 922337203685477 -- just below the score that Redisson uses for permits without an end
-- over removes permits whose lease is over from the leases, at most 1000 at a time, and returns their number. It fails if the sorted
-- set does not belong to a semaphore.
local function over(leases, now)
  local function check(ids)
    for _, id in ipairs(ids) do
      -- Redisson 3.13.6 writes ids of 32 hex digits.
      if #id ~= 16 and not (#id == 32 and string.find(id, '^%x+$')) then unreadable(leases, 'the leases of a semaphore', 'use another name, or check which program writes the key') end
    end
  end
  check(redis.call('zrange', leases, 0, 0)) -- there may be many others
  local ids = redis.call('zrangebyscore', leases, '-inf', now, 'limit', 0, 1000)
  check(ids)
  if #ids == 1000 then return redis.call('zremrangebyrank', leases, 0, #ids - 1) end
  -- Also if there are none: a server that is out of memory refuses ZADD, unless the script has written already.
  return redis.call('zremrangebyscore', leases, '-inf', now)
end
-- restore makes permits free again, unless the semaphore does not exist. It returns how many clients received the message.
local function restore(free, n, publish, channel)
  if n == 0 or not whole(free) then return 0 end
  local total = redis.call('incrby', free, n)
  if total <= 0 then return 0 end
  local heard = redis.pcall(publish, channel, total) -- the change is made even if the user may not publish
  return type(heard) == 'number' and heard or 0
end
