-- The queue of the clients that wait for a lock.
-- KEYS  the last one is the queue: a sorted set of owners, each followed by what it wants: nothing for a mutex, ':fenced', ':write', or
--       ':permits' and a number. The score is the time of the first request in µs of the Unix epoch, times two, and one more if the owner
--       wants the lock for less than GRANT. A client in the queue listens on two channels: that with the name of the queue, and the same
--       with ':' and the id of the client
local SKIPS = 16   -- a call passes over at most so many clients that do not listen
local LONG = 100   -- bytes; no entry is longer, and a call reads at most one that is
local queue = KEYS[#KEYS]

-- fails reports whether a reply is an error.
local function fails(reply) return type(reply) == 'table' and reply.err end

-- enqueue returns the reply for a lock that is held for ms, -1 without end: -1 - ms, and the place in the queue, 0 if it is not queued.
local function enqueue(member, lease, ms)
  local reply = -1 - math.max(math.min(ms, 9e15), -1)
  local time = redis.call('time')
  local score = (time[1] * 1000000 + time[2]) * 2 + (tonumber(lease) < GRANT and 1 or 0)
  -- The queue may hold data of another type, a server that is out of memory refuses to add to it, and the user may lack a right. An
  -- entry that cannot be removed would stay when its owner has the lock, so none is added then. The first call adds nothing. It must be
  -- the first: after another write, a server that is out of memory refuses nothing.
  if fails(redis.pcall('zadd', queue, 'xx', 0, '')) or fails(redis.pcall('zrem', queue, '')) then return { reply, 0 } end
  redis.call('zadd', queue, 'nx', string.format('%.0f', score), member)
  local rank = redis.pcall('zrank', queue, member)
  if fails(rank) then
    redis.call('zrem', queue, member)
    return { reply, 0 }
  end
  redis.call('pexpire', queue, 300000)
  return { reply, rank + 1 }
end

-- dequeue removes an owner that has the lock, or has given up.
local function dequeue(member) redis.pcall('zrem', queue, member) end

-- parse returns the channel of the client, the owner and the kind of an entry, or nil if it is not the entry of a client.
local function parse(member)
  local id, number, kind = string.match(#member <= LONG and member or '', '^([%x-]+)(:%d+)(:?%w*)$')
  return id and queue .. ':' .. id, id and id .. number, kind
end

-- give writes that an owner has the lock. It returns false if the slot is being moved: the server then refuses to write a key that was
-- deleted, here.
local function give(...) return type(redis.pcall('hset', KEYS[1], ...)) == 'number' end

-- listeners returns how many clients wait and do not queue, and how many listen on one more channel. It returns nil if the user may not
-- see who listens.
local function listeners(publish, channel, more)
  local n = numsub(publish, channel, queue, queue .. ':readers', more)
  if n.err then return end
  return math.max(n[2] - n[4], n[6]), n[8]
end

-- outside returns how many of the clients that have received a message do not queue.
local function outside(heard, publish, channel)
  if type(heard) ~= 'number' or heard == 0 then return 0 end
  return listeners(publish, channel, queue) or heard
end

-- front returns the first entry, from a place on, whose client listens, and how many clients wait and do not queue. It removes entries
-- whose clients do not listen: they queue again when they listen again. It returns nothing if the user may not see who listens.
local function front(at, publish, channel)
  local others
  for _ = 1, SKIPS do
    local entry = redis.pcall('zrange', queue, at, at, 'withscores')
    if not entry[1] then break end
    local client, owner, wanted = parse(entry[1])
    local listening
    others, listening = listeners(publish, channel, client or queue)
    if not others then return end
    if client and listening > 0 then
      return { member = entry[1], client = client, owner = owner, wanted = wanted, short = tonumber(entry[2]) % 2 == 1 }, others
    end
    local removed = redis.pcall('zrem', queue, entry[1])
    if #entry[1] > LONG or fails(removed) then break end
  end
  return nil, others
end

-- free_for_all reports whether a release leaves the lock free, although a client is in the queue: if other clients wait that do not
-- queue and the lot is even, and always if the lot is 0, because clients that listen at other servers cannot be counted.
local function free_for_all(others, lot) return others > 0 and lot % 2 == 0 or lot == 0 end

-- pass gives a free lock to the first client in the queue that listens: take writes that an owner has the lock, and returns the token.
-- A client that wants the lock for a short time, or as another kind, is told to ask. If the lock stays free, pass tells all other
-- clients with one message or two. It returns how many other clients wait.
local function pass(kind, take, publish, lot, channel, message, message2)
  local function wake()
    local heard = told(publish, channel, message)
    if message2 then told(publish, channel, message2) end
    return heard
  end
  local head, others = front(0, publish, channel)
  if head then
    local all = free_for_all(others, lot)
    if all or head.wanted ~= kind or head.short then
      if all or others > 0 then wake() end
      told(publish, head.client, '')
      return others
    end
    local token = take(head.owner, head.member)
    if token then
      redis.call('pexpire', KEYS[1], GRANT)
      if not fails(redis.pcall('zrem', queue, head.member)) and announce(publish, head.client, head.owner, token) then
        if others > 0 then
          local next = redis.pcall('zrange', queue, 0, 0)[1]
          next = next and parse(next)
          if next then told(publish, next, '') end -- so that it knows that it is the first, and asks when one of the others releases
        end
        return 0
      end
      redis.call('del', KEYS[1]) -- the user may not remove it from the queue, or not publish to it
    end
  end
  local heard = wake()
  return others or outside(heard, publish, channel)
end
