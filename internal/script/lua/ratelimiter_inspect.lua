-- Return the state of a rate limiter.
-- USES  clock int64 ratelimiter
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of taken permits, 5 that of the client
--       6 the rate that the client's count is based on
-- RETURN  nothing, if it has no rate; or rate, interval in ms, 1 if per client else 0, ms that it is kept unused, free permits
local l = configured(KEYS)
if not l then return {} end
local _, free = available(l, clock(), true)
return { l.rate, l.interval, l.own and 1 or 0, l.keep, math.max(free, 0) }
