-- Give back permits that were not needed: those that were taken last. Running it twice does what running it once does.
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of what was taken, 5 that of the client
--       6 the rate for which the client counts
--       7 the mark of the lane
-- ARGV  1 how many
--       2 number of the request
--       3 how long to remember it, in ms
-- RETURN  1 done, -1 there is no rate
local known = recall(KEYS[7], ARGV[2])
if known then return known == 'done' and 1 or -1 end
local l = configured(KEYS)
if not l then
  remember(KEYS[7], ARGV[2], 'no rate', ARGV[3])
  return -1
end
local now, back = clock(), tonumber(ARGV[1])
-- A server that is out of memory refuses INCRBY, unless the script has written before.
redis.call('pexpire', KEYS[7], ARGV[3])
local free = reclaim(l, now, math.max(back, 1000))
-- They leave the log as well, or they would be free a second time when they are over.
local log = redis.call('zrevrangebyscore', l.log, now, '-inf', 'withscores', 'limit', 0, back)
for i = 1, #log, 2 do unpack(log[i]) end -- all or nothing
for i = 1, #log, 2 do
  local id, n = unpack(log[i])
  local less = math.min(n, back)
  redis.call('zrem', l.log, log[i])
  if less < n then redis.call('zadd', l.log, log[i + 1], struct.pack('Bc0I', #id, id, n - less)) end
  -- Redisson gives permits back without taking them off the log: no more than there are become free.
  redis.call('incrby', l.free, math.max(math.min(less, l.rate - free), 0))
  free = free + less
  back = back - less
  if back == 0 then break end
end
keepAlive(l, KEYS, now)
remember(KEYS[7], ARGV[2], 'done', ARGV[3])
return 1
