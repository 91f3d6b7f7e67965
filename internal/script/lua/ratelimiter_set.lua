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
local old = configured(KEYS, ARGV[7] == 'any')
if not old and redis.call('hlen', KEYS[1]) > 0 then
  return redis.error_reply('WRONGTYPE the hash ' .. KEYS[1] .. ' is not that of a rate limiter')
end
if ARGV[7] == 'new' and old or ARGV[7] == 'old' and not old then
  remember(KEYS[7], ARGV[5], 'kept', ARGV[6])
  return 0
end
-- What others have by the names of the state is not deleted: these fail.
for _, i in ipairs({ 2, 3, 6 }) do whole(KEYS[i]) end
for _, i in ipairs({ 4, 5 }) do
  local first = redis.call('zrange', KEYS[i], 0, 0)
  if first[1] then unpack(KEYS[i], first[1]) end
end
redis.call('hset', KEYS[1], 'rate', ARGV[1], 'interval', ARGV[2], 'type', ARGV[3], 'keepAliveTime', ARGV[4])
if old and (old.keep or 1) > 0 then
  -- What was kept for a time is kept for the new one.
  for i = 1, 6 do redis.call('persist', KEYS[i]) end
end
local counts = ARGV[7] == 'old' and (old.own or false) == (ARGV[3] == '1') -- what was taken
if not counts then redis.call('unlink', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) end
local l, now = configured(KEYS), clock()
if counts then
  -- That the rate differs from the one before does not show in the count that all clients share.
  if not l.own and redis.call('exists', l.free) == 1 then redis.call('incrby', l.free, l.rate - old.rate) end
  available(l, now)
end
keepAlive(l, KEYS, now)
remember(KEYS[7], ARGV[5], 'set', ARGV[6])
return 1
