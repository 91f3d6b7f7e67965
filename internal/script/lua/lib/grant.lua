-- Messages to clients that wait for a lock.
local GRANT = 3000 -- ms for which an owner gets the lock that has not asked just now

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
