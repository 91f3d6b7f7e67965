-- What an entry of a log says: a length, as many random bytes, and the permits.
local function unpack(entry)
  if #entry ~= 5 + string.byte(entry) then
    error('the log was written by a Redisson before 3.17: see "Old releases" in docs/mixed-fleet.md')
  end
  return struct.unpack('Bc0I', entry)
end
-- How many permits the entries of a log stand for.
local function sum(entries)
  local permits = 0
  for _, entry in ipairs(entries) do
    local _, n = unpack(entry)
    permits = permits + n
  end
  return permits
end
-- The rate of a limiter and the keys of its state; nothing if it has no rate.
local function configured(keys)
  local c = redis.call('hmget', keys[1], 'rate', 'interval', 'type', 'keepAliveTime')
  if not (c[1] and c[2] and c[3]) then return nil end
  local l = { rate = tonumber(c[1]), interval = tonumber(c[2]), keep = tonumber(c[4] or 0), free = keys[2], log = keys[4] }
  -- Who changes the rate cannot see what others have of their own, so they note for which rate it is.
  if c[3] == '1' then l.own, l.free, l.log, l.basis = true, keys[3], keys[5], keys[6] end
  return l
end
-- How many permits are free now, whether that is not what is written down, and how many entries are over; no more than so many
-- are looked at, and the others count as used, so that nobody else has to wait for long.
local function available(l, now, most)
  local free = tonumber(redis.call('get', l.free) or nil)
  -- A ms more, since times are cut to whole ones: no span of an interval sees more than the rate.
  local past = now - l.interval - 1
  if redis.call('zcount', l.log, past + 1, '+inf') == 0 then return l.rate, free ~= l.rate, redis.call('zcard', l.log) end
  local entries = redis.call('zrangebyscore', l.log, 0, past, 'limit', 0, most)
  local over = sum(entries)
  local sound = free and free + over <= l.rate and (free + over == l.rate or redis.call('exists', l.log) == 1)
  if sound and not (l.own and tonumber(redis.call('get', l.basis) or nil) ~= l.rate) then return free + over, over > 0, #entries end
  return l.rate - sum(redis.call('zrangebyscore', l.log, past + 1, '+inf')), true, redis.call('zcount', l.log, 0, past)
end
-- Write down how many are free, and forget what is over.
local function reclaim(l, now, most)
  local free, changed, over = available(l, now, most)
  if over > 0 and over == redis.call('zcard', l.log) then
    redis.call('unlink', l.log)
  elseif over > 0 then
    redis.call('zremrangebyrank', l.log, 0, over - 1)
  end
  if changed then
    -- Not SET, which would drop a TTL.
    redis.call('incrby', l.free, free - (tonumber(redis.call('get', l.free) or nil) or 0))
    if l.own then redis.call('set', l.basis, l.rate) end
  end
  return free
end
-- Let everything expire that nobody uses; but nothing that is needed yet.
local function keepAlive(l, keys, now)
  local last = tonumber(redis.call('zrevrange', l.log, 0, 0, 'withscores')[2]) or now
  local needed = math.max(last - now, 0) + l.interval + 1000
  local ttl = redis.call('pttl', keys[1])
  if l.keep > 0 then
    ttl = math.max(l.keep, needed)
    redis.call('pexpire', keys[1], ttl)
  elseif l.own then
    ttl = needed -- a client's own state is as new by then; others cannot let it last any longer
  end
  if ttl <= 0 then return end
  for _, key in ipairs({ l.free, l.log, l.basis }) do redis.call('pexpire', key, ttl) end
end
