-- The queue of the clients that wait for a lock.
-- KEYS  the last one is the queue: a sorted set of owners, each followed by what it wants: nothing for a mutex, ':fenced', ':write', or
--       ':permits' and a number; and by ':short' and k if it wants it for less than GRANT, but for at least 2^k ms. The score is the
--       time of the first request in µs of the Unix epoch. A client in the queue listens on two channels: that with the name of the
--       queue, and the same with ':' and the id of the client
local queue = KEYS[#KEYS]

local GRANT = 3000 -- ms for which an owner gets the lock that has not asked just now
local LONG = 100    -- bytes; no entry is longer, and a call reads at most one that is
local YOUNG = 1e6   -- µs; an entry that is younger asks by itself when it is that old

-- fails reports whether a reply is an error.
local function fails(reply) return type(reply) == 'table' and reply.err end

-- micros returns the time in µs of the Unix epoch, as text. To format the number would cost more than the command. For the same reason,
-- arguments of commands are texts where that is simple.
local function micros()
  local now = redis.call('time')
  return now[1] .. string.sub('00000' .. now[2], -6)
end
