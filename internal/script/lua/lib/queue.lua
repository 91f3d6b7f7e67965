-- The queue of the clients that wait for a lock.
-- KEYS  the last one is the queue: a sorted set of owners, each followed by what it wants: nothing for a mutex, ':fenced', ':write', or
--       ':permits' and a number; and by ':short' and k if it wants it for less than GRANT, but for at least 2^k ms. The score is the
--       time of the first request in µs of the Unix epoch. A client in the queue listens on two channels: that with the name of the
--       queue, and the same with ':' and the id of the client
local queue = KEYS[#KEYS]

local LONG = 100    -- bytes; no entry is longer, and a call reads at most one that is
local YOUNG = 1e6   -- µs; an entry that is younger asks by itself when it is that old

-- fails reports whether a reply is an error.
local function fails(reply) return type(reply) == 'table' and reply.err end

-- parse returns the channel of the client, the owner, and what the owner wants, or nil if it is not the entry of a client.
local function parse(member)
  local id, number, wanted = string.match(#member <= LONG and member or '', '^([%x-]+)(:%d+)(.*)$')
  return id and queue .. ':' .. id, id and id .. number, wanted
end

-- micros returns the time in µs of the Unix epoch, as text. To format the number would cost more than the command.
local function micros()
  local now = redis.call('time')
  return now[1] .. string.sub(1000000 + now[2], 2)
end

-- tell_first tells the first client in the queue that it is the first, and for how many ms the lock is held, -1 without end. Being the
-- first stays true while it waits. The message does not name the owner: its name is a secret until it has the lock.
local function tell_first(publish, ms)
  local head = redis.pcall('zrange', queue, 0, 0, 'withscores')
  if head[1] and micros() - head[2] >= YOUNG then
    local client = parse(head[1])
    if client then told(publish, client, 'first ' .. string.format('%.0f', math.max(ms, -1))) end
  end
end

-- entry returns the entry of an owner with what it wants, by the lease time in ms.
local function entry(member, lease)
  local ms = tonumber(lease)
  if ms >= GRANT then return member end
  local k = 0
  while 2 ^ (k + 1) <= ms do k = k + 1 end
  return member .. ':short' .. k
end

-- enqueue returns the reply for a lock that is held for ms, -1 without end: -1 - ms, the place in the queue, 0 if it is not queued, -1
-- if most are in the queue already, and the score of the entry, by which the client knows that a grant is of this entry. Where most is '', any number can queue. If check is '1', nothing is added unless the user may
-- remove it, too: an entry that cannot be removed would stay when its owner has the lock.
local function enqueue(member, lease, ms, most, check)
  local reply = -1 - math.max(math.min(ms, 9e15), -1)
  -- The queue may hold data of another type, a server that is out of memory refuses to add to it, and the user may lack a right. The
  -- first call adds nothing. It must be the first: after another write, a server that is out of memory refuses nothing.
  if check == '1' and (fails(redis.pcall('zadd', queue, 'xx', 0, '')) or fails(redis.pcall('zrem', queue, ''))) then return { reply, 0 } end
  member = entry(member, lease)
  local score = micros()
  local added = redis.pcall('zadd', queue, 'nx', score, member)
  if fails(added) then return { reply, 0 } end
  local rank = redis.pcall('zrank', queue, member)
  if fails(rank) or added == 1 and rank >= (tonumber(most) or math.huge) then
    redis.pcall('zrem', queue, member)
    return { reply, fails(rank) and 0 or -1 }
  end
  if rank < 8 then redis.call('pexpire', queue, 300000) end -- those at the front ask often enough
  if added == 0 then score = redis.call('zscore', queue, member) end
  return { reply, rank + 1, tonumber(score) }
end

-- dequeue removes an owner that has the lock. If it was in the queue, another one may be the first now.
local function dequeue(member, lease, publish)
  if redis.pcall('zrem', queue, entry(member, lease)) == 1 then tell_first(publish, tonumber(lease)) end
end

-- abandon removes an owner that has given up. It reports whether it was in the queue and there are others, and whether it was the first.
local function abandon(member)
  local head = redis.pcall('zrange', queue, 0, 0)[1]
  local entries = { member }
  for k = 0, 11 do entries[k + 2] = member .. ':short' .. k end
  if redis.pcall('zrem', queue, unpack(entries)) ~= 1 then return false end
  return redis.pcall('exists', queue) == 1, head and string.sub(head .. ':', 1, #member + 1) == member .. ':'
end
