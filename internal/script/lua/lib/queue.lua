-- The queue of a mutex.
-- KEYS  1 the lock
--       2 the queue: a sorted set of owners. The score is the time of the first request in µs of the Unix epoch, times two, and one
--         more if the owner wants the lock for less than GRANT. A client in the queue listens on two channels: that with the name
--         of the queue, and the same with ':' and the id of the client
local GRANT = 2000 -- ms for which an owner gets the lock that has not asked just now
local SKIPS = 16   -- a call passes over at most so many clients that do not listen

-- own returns the channel of the client of an owner, or nil if it is not the owner of a client.
local function own(owner)
  local id = owner and #owner < 100 and string.match(owner, '^([%x-]+):%d+$')
  return id and KEYS[2] .. ':' .. id
end

-- pass grants a free lock to the first client in the queue that listens, and tells it. If other clients wait that do not queue,
-- it leaves the lock free if the lot is even, and tells them. It returns how many of them were told. If the lot is 0, it always
-- leaves the lock free: clients that listen at other servers cannot be counted.
local function pass(publish, channel, lot)
  local function count(...)
    if string.lower(publish) == 'spublish' then return redis.pcall('pubsub', 'shardnumsub', ...) end
    return redis.pcall('pubsub', 'numsub', ...)
  end
  local function told(...)
    local n = redis.pcall(publish, ...)
    return type(n) == 'number' and n
  end
  local others
  for _ = 1, SKIPS do
    local head = redis.pcall('zrange', KEYS[2], 0, 0, 'withscores')
    local owner = head[1]
    if not owner then break end
    local client = own(owner)
    local n = count(channel, KEYS[2], client or KEYS[2])
    if n.err then break end -- the user may not see who listens
    others = n[2] - n[4]
    if not client or n[6] == 0 then
      redis.call('zrem', KEYS[2], owner) -- it queues again when it listens again
    else
      local all = others > 0 and lot % 2 == 0 or lot == 0
      if all or tonumber(head[2]) % 2 == 1 then
        local heard = (all or others > 0) and told(channel, '0')
        told(client, '')
        return heard and math.max(others, 0) or 0
      end
      local time = redis.call('time')
      redis.call('hset', KEYS[1], owner, 1)
      redis.call('pexpire', KEYS[1], GRANT)
      redis.call('zrem', KEYS[2], owner)
      if told(client, string.format('%s %.0f %d', owner, time[1] * 1000000 + time[2], GRANT)) then
        if others > 0 then
          local next = own(redis.call('zrange', KEYS[2], 0, 0)[1])
          if next then told(next, '') end -- so that it knows that it is the first, and asks when one of the others releases
        end
        return 0
      end
      redis.call('del', KEYS[1]) -- the user may not publish to it
      break
    end
  end
  local heard = told(channel, '0') or 0
  if heard > 0 and not others then
    local n = count(channel, KEYS[2])
    others = not n.err and n[2] - n[4]
  end
  return math.max(others or heard, 0)
end
