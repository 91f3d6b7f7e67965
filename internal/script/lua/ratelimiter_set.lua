-- Set the rate. Idempotent.
-- USES  once clock int64 ratelimiter
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of taken permits, 5 that of the client
--       6 the rate that the client's count is based on
--       7 the mark of the request series
-- ARGV  1 rate, 2 interval in ms, 3 type: 0 for all, 1 per client, 4 ms to keep it while unused, 0: for ever
--       5 number of the request
--       6 how long to keep the mark, in ms
--       7 condition: new: only if there is no rate; any: always; old: only if there is one, and taken permits still count
-- RETURN  1 set, 0 not set
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
-- These checks fail if the keys of the state hold other data, so that such data is not deleted.
for _, i in ipairs({ 2, 3, 6 }) do whole(KEYS[i]) end
for _, i in ipairs({ 4, 5 }) do
  local first = redis.call('zrange', KEYS[i], 0, 0)
  if first[1] then unpack(KEYS[i], first[1]) end
end
redis.call('hset', KEYS[1], 'rate', ARGV[1], 'interval', ARGV[2], 'type', ARGV[3], 'keepAliveTime', ARGV[4])
if old and (old.keep or 1) > 0 then
  -- Remove the TTLs of the old rate. keepAlive sets those of the new one.
  for i = 1, 6 do redis.call('persist', KEYS[i]) end
end
local counts = ARGV[7] == 'old' and (old.own or false) == (ARGV[3] == '1') -- taken permits still count
if not counts then redis.call('unlink', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) end
local l, now = configured(KEYS), clock()
if counts then
  -- The count that all clients share does not record which rate it is based on, so it is adjusted here.
  if not l.own and redis.call('exists', l.free) == 1 then redis.call('incrby', l.free, l.rate - old.rate) end
  available(l, now)
end
keepAlive(l, KEYS, now)
remember(KEYS[7], ARGV[5], 'set', ARGV[6])
return 1
