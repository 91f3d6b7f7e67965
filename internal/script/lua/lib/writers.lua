-- The waiting writers that have priority: a sorted set, writer -> time until which it keeps new readers out.
local MOST = 60000 -- ms; no writer stores a time further ahead

-- first returns for how many ms writers keep new readers out, 0 if none does.
local function first(writers, now)
  local last = redis.call('zrevrangebyscore', writers, now + MOST, '(' .. now, 'withscores', 'limit', 0, 1)
  return last[2] and last[2] - now or 0
end

-- leave removes a writer and the dead ones. It reports whether new readers are allowed again.
local function leave(writers, writer, now)
  if redis.call('zrem', writers, writer) == 0 then return false end
  local dead = redis.call('zcount', writers, '-inf', now)
  if dead > 0 then redis.call('zremrangebyrank', writers, 0, math.min(dead, 1000) - 1) end
  return first(writers, now) == 0
end
