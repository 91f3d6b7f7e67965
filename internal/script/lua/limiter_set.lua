-- Set the rate. Running it twice does what running it once does.
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of what was taken, 5 that of the client
--       6 the rate for which the client counts
--       7 the mark of the lane
-- ARGV  1 rate, 2 interval in ms, 3 type: 0 for all, 1 per client, 4 ms to keep it unused, 0: for ever
--       5 number of the request
--       6 how long to remember it, in ms
--       7 when: new: only if there is none; any: in any case; old: only if there is one, and what was taken counts
-- RETURN  1 set, 0 not
local known = recall(KEYS[7], ARGV[5])
if known then return known == 'set' and 1 or 0 end
local old = configured(KEYS)
if not old and redis.call('hlen', KEYS[1]) > 0 and redis.call('hexists', KEYS[1], 'rate') == 0 then
  return redis.error_reply('WRONGTYPE the hash is not that of a rate limiter')
end
if ARGV[7] == 'new' and old or ARGV[7] == 'old' and not old then
  remember(KEYS[7], ARGV[5], 'kept', ARGV[6])
  return 0
end
redis.call('hset', KEYS[1], 'rate', ARGV[1], 'interval', ARGV[2], 'type', ARGV[3], 'keepAliveTime', ARGV[4])
if old and old.keep > 0 then
  -- What was kept for a time is kept for the new one.
  for i = 1, 6 do redis.call('persist', KEYS[i]) end
end
local l, now = configured(KEYS), clock()
if ARGV[7] ~= 'old' or old.own ~= l.own then
  redis.call('del', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
else
  redis.call('zremrangebyscore', l.log, 0, now - l.interval - 1)
  redis.call('set', l.free, l.rate - sum(redis.call('zrange', l.log, 0, -1)))
  if l.own then redis.call('set', l.basis, l.rate) end
end
keepAlive(l, KEYS, now)
remember(KEYS[7], ARGV[5], 'set', ARGV[6])
return 1
