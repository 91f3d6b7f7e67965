-- Return permits that were taken and not used. Idempotent.
-- USES  clock int64 ratelimiter
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of taken permits, 5 that of the client
--       6 the rate that the client's count is based on
-- ARGV  1 how many
--       2 id of the request, 16 bytes
--       3 1: only if they cannot be used yet
-- RETURN  1 returned, 0 not returned
local l = configured(KEYS)
if not l then return 0 end
local now = clock()
local entry = struct.pack(PACK, #ARGV[2], ARGV[2], ARGV[1])
local at = tonumber(redis.call('zscore', l.log, entry) or nil)
if not at or ARGV[3] == '1' and at <= now then return 0 end
-- A server that is out of memory refuses INCRBY, unless the script has written already.
redis.call('zrem', l.log, '')
available(l, now)
if redis.call('zrem', l.log, entry) == 1 then redis.call('incrby', l.free, ARGV[1]) end
keepAlive(l, KEYS, now)
return 1
