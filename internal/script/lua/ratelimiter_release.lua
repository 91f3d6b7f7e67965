-- Return permits that were not needed: those that were taken last, of at most 1000 entries. Idempotent.
-- USES  once clock int64 ratelimiter
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of taken permits, 5 that of the client
--       6 the rate that the client's count is based on
--       7 the mark of the request series
-- ARGV  1 how many
--       2 number of the request
--       3 how long to keep the mark, in ms
-- RETURN  1 done, 1 + the number of permits left for another request, -1 there is no rate
local known = recall(KEYS[7], ARGV[2])
if known == 'done' then return 1 elseif known == 'no rate' or known == 'late' then return -1 elseif known then return 1 + told(KEYS[7], known) end
local l = configured(KEYS)
if not l then
  remember(KEYS[7], ARGV[2], 'no rate', ARGV[3])
  return -1
end
local now, back = clock(), tonumber(ARGV[1])
-- A server that is out of memory refuses INCRBY, unless the script has written already.
redis.call('pexpire', KEYS[7], ARGV[3])
local free = available(l, now)
-- The entries are removed from the log. Otherwise their permits would become free a second time when the entries are over.
local log = redis.call('zrevrangebyscore', l.log, now, '-inf', 'withscores', 'limit', 0, math.min(back, MOST))
for i = 1, #log, 2 do unpack(l.log, log[i]) end -- check all before the first write
local given = 0
for i = 1, #log, 2 do
  local id, n = unpack(l.log, log[i])
  local less = math.min(n, back)
  redis.call('zrem', l.log, log[i])
  if less < n then redis.call('zadd', l.log, log[i + 1], struct.pack(PACK, #id, id, n - less)) end
  given, back = given + less, back - less
  if back == 0 then break end
end
-- Redisson returns permits without removing them from the log. No more than the rate may become free.
redis.call('incrby', l.free, math.max(math.min(given, l.rate - free), 0))
keepAlive(l, KEYS, now)
local left = #log == 2 * MOST and back or 0
remember(KEYS[7], ARGV[2], left == 0 and 'done' or left, ARGV[3])
return 1 + left
