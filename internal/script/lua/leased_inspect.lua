-- Look at permits.
-- KEYS  1 the number of free permits
--       2 the leases: ids by when they end
-- ARGV  1 the id of a permit, or nothing
-- RETURN  how many are free
--         how many are taken
--         the ms that the permit is still taken, -1 without end, -2 it is not
local now = clock()
local free = whole(KEYS[1])
-- Those whose lease is over come back when somebody asks for permits next.
local over = redis.call('zcount', KEYS[2], '-inf', now)
local ends = tonumber(ARGV[1] ~= '' and redis.call('zscore', KEYS[2], ARGV[1]) or nil) or 0
local left = ends <= now and -2 or ends < FOREVER and math.ceil(ends - now) or -1
-- Where there is no semaphore they come back to nobody.
return { free and free + over or 0, redis.call('zcard', KEYS[2]) - over, left }
