-- Messages to clients that wait for a lock.

-- told publishes a message, and returns how many clients received it, or false if the user may not publish on the channel.
local function told(publish, channel, message)
  local n = redis.pcall(publish, channel, message)
  return type(n) == 'number' and n
end

-- announce tells a client that one of its owners has the lock for ms, and the score that its entry had in the queue. It returns false if
-- the user may not publish on the channel. A grant without receivers is not taken back: PUBLISH does not count the clients of the other
-- nodes of a cluster, and they receive it.
local function announce(publish, client, owner, token, ms, score)
  return told(publish, client, owner .. ' ' .. token .. ' ' .. ms .. ' ' .. score)
end

-- parse returns the channel of the client, the owner, and what the owner wants, or nil if it is not the entry of a client.
local function parse(member)
  local id, number, wanted = string.match(#member <= LONG and member or '', '^([%x-]+)(:%d+)(.*)$')
  return id and queue .. ':' .. id, id and id .. number, wanted
end

-- tell_first tells the first client in the queue that it is the first, and for how many ms the lock is held, -1 without end. Being the
-- first stays true while it waits. The message does not name the owner: its name is a secret until it has the lock.
local function tell_first(publish, ms)
  local head = redis.pcall('zrange', queue, '0', '0', 'withscores')
  if head[1] and micros() - head[2] >= YOUNG then
    local client = parse(head[1])
    if client then told(publish, client, 'first ' .. string.format('%.0f', math.max(tonumber(ms), -1))) end
  end
end
