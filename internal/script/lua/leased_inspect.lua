-- Return the state of permits.
-- USES  clock int64 leased
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
-- ARGV  1 the id of a permit, or nothing
-- RETURN  the number of free permits
--         the number of taken permits
--         the remaining ms of the permit, -1 without end, -2 if it is not held
local now = clock()
local free = whole(KEYS[1])
-- Permits whose lease is over count as free, even if no script has removed their leases yet.
local over = redis.call('zcount', KEYS[2], '-inf', now)
local ends = tonumber(ARGV[1] ~= '' and redis.call('zscore', KEYS[2], ARGV[1]) or nil) or 0
local left = ends <= now and -2 or ends < FOREVER and math.ceil(ends - now) or -1
-- No permits are free if the semaphore does not exist.
return { free and free + over or 0, redis.call('zcard', KEYS[2]) - over, left }
