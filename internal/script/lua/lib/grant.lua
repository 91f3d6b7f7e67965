-- Messages to clients that wait for a lock.

-- told publishes a message, and returns how many clients received it, or false if the user may not publish on the channel.
local function told(publish, channel, message)
  local n = redis.pcall(publish, channel, message)
  return type(n) == 'number' and n
end

-- announce tells a client that one of its owners has the lock for ms, and the score that its entry had in the queue. It returns false if
-- the user may not publish on the channel.
local function announce(publish, client, owner, token, ms, score)
  return told(publish, client, owner .. ' ' .. token .. ' ' .. ms .. ' ' .. score)
end

-- parse returns the channel of the client, the owner, and what the owner wants, or nil if it is not the entry of a client.
local function parse(member)
  local id, number, wanted = string.match(#member <= LONG and member or '', '^([%x-]+)(:%d+)(.*)$')
  return id and queue .. ':' .. id, id and id .. number, wanted
end

-- tell_first tells the first client in the queue that it is the first, and for how many ms the lock is held, -1 without end. Being the
-- first stays true while it waits. The message does not name the owner: its name is a secret until it has the lock. The entry, its score
-- and the time are read unless they are given; the entry is false if there is none.
local function tell_first(publish, ms, member, score, now)
  if member == nil then
    local head = redis.pcall('zrange', queue, 0, 0, 'withscores')
    member, score = head[1], head[2]
  end
  if member and (now or micros()) - score >= YOUNG then
    local client = parse(member)
    if client then told(publish, client, 'first ' .. string.format('%.0f', math.max(ms, -1))) end
  end
end
