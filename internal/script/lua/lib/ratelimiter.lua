local MOST = 1000   -- a script reads at most so many entries of a log
local LONG = 10000  -- the same, if it must add up all entries because the count was lost
local PACK = 'Bc0I' -- a length, as many random bytes, and the number of permits
-- unpack returns the parts of a log entry.
local function unpack(log, entry)
  if #entry == 0 or #entry ~= 5 + string.byte(entry) then
    unreadable(log, 'the log of a rate limiter', 'delete it, or see "Old releases" in docs/from-redisson.md if a Redisson before 3.17 wrote it')
  end
  return struct.unpack(PACK, entry)
end
-- sum returns the number of permits in some log entries.
local function sum(log, entries, step)
  local permits = 0
  for i = 1, #entries, step or 1 do
    local _, n = unpack(log, entries[i])
    permits = permits + n
  end
  return permits
end
-- configured returns the rate of a limiter and the keys of its state, or nil if it has no rate. It fails on a rate or a log that
-- cannot be read, unless the rate is to be replaced.
local function configured(keys, replace)
  local c = redis.call('hmget', keys[1], 'rate', 'interval', 'type', 'keepAliveTime')
  if not (c[1] and c[2] and c[3]) then return nil end
  local function natural(text) return string.find(text, '^%d+$') and #text <= 16 and tonumber(text) <= 2 ^ 53 and tonumber(text) end
  local l = { rate = natural(c[1]), interval = natural(c[2]), keep = natural(c[4] or '0'), free = keys[2], log = keys[4] }
  -- A client that changes the rate cannot access the state of other clients. So each client stores the rate that its count is based
  -- on.
  if c[3] == '1' then l.own, l.free, l.log, l.basis = true, keys[3], keys[5], keys[6] end
  l.broken = not (l.rate and l.interval and l.keep and (c[3] == '0' or c[3] == '1'))
  if l.broken and not replace then unreadable(keys[1], 'a rate that can be read', 'set one with SetRate') end
  if not l.broken then
    -- Numbers are passed as text, which the server need not format.
    local first, last = redis.call('zrange', l.log, '0', '0'), redis.call('zrevrange', l.log, '0', '0', 'withscores')
    -- Redisson before 3.17 wrote entries of 8 bytes. They count as used until they are over. After that, unpack fails on them.
    for _, entry in ipairs({ first[1], last[1] }) do
      if #entry ~= 8 then unpack(l.log, entry) end
    end
    if last[2] and not (tonumber(last[2]) < 2 ^ 53) then unreadable(l.log, 'times', 'delete it') end
    l.last = tonumber(last[2])
  end
  return l
end
-- available returns how many permits are free now. It removes entries that are over and stores the number. If look is set, it writes
-- only if an entry is over. If too many entries are over to read all of them, the rest counts as used until the next call, so that
-- the script does not block the server for long. The second result counts one more permit for each entry of the rest.
local function available(l, now, look)
  local had = whole(l.free)
  local basis = l.own and whole(l.basis) or not l.own and l.rate
  -- One ms more, since times are truncated to whole ms: no interval may contain more permits than the rate.
  local over = redis.call('zcount', l.log, '-inf', string.format('%.0f', now - l.interval - 1))
  if over == 0 and l.last and had and had <= l.rate and basis == l.rate and not look then return had end
  local total = redis.call('zcard', l.log)
  local live = total - over
  local free, drop, keep, rest = had and basis and had + l.rate - basis, math.min(over, MOST), nil, 0
  if live == 0 then
    free, drop = l.rate, total
  else
    if free and drop > 0 then free = free + sum(l.log, redis.call('zrange', l.log, 0, drop - 1)) end
    rest = over - drop
    local sound = free and free <= l.rate
    if (not sound or rest > 0) and live <= (sound and MOST or LONG) then
      -- There may be too many entries that are over to remove them one by one. In this case the others are put into a new log.
      keep = redis.call('zrange', l.log, total - live, -1, 'withscores')
      free = l.rate - sum(l.log, keep, 2)
      if rest == 0 then keep = nil end
      drop, rest = over, 0
    elseif not sound then
      -- The count was lost, and the log is too long to compute it. All permits count as taken by the last entry.
      local n = math.min(l.rate, 2 ^ 32 - 1)
      keep = { struct.pack(PACK, 16, string.rep('\0', 16), n), l.last }
      free, drop, rest = l.rate - n, total, 0
    end
  end
  if not look or over > 0 then
    if keep or drop > 0 and drop == total then
      redis.call('unlink', l.log)
      for i = 1, #(keep or {}), 2 do redis.call('zadd', l.log, keep[i + 1], keep[i]) end
    elseif drop > 0 then
      redis.call('zremrangebyrank', l.log, 0, drop - 1)
    end
    -- Not SET, which would drop a TTL.
    if free ~= had then redis.call('incrby', l.free, free - (had or 0)) end
    if l.own and basis ~= l.rate then redis.call('set', l.basis, l.rate) end
  end
  return free, math.min(free + rest, l.rate - live)
end
-- keepAlive sets the TTLs of the keys, so that unused state expires and needed state does not.
local function keepAlive(l, keys, now)
  local last = tonumber(redis.call('zrevrange', l.log, '0', '0', 'withscores')[2]) or now
  local needed = math.ceil(math.max(last - now, 0)) + l.interval + 1000
  local ttl = math.min(redis.call('pttl', keys[1]), 2 ^ 53)
  if l.keep > 0 then
    ttl = math.max(l.keep, needed)
    redis.call('pexpire', keys[1], ttl)
  elseif l.own then
    ttl = needed -- after this time the client's state has no effect; other clients cannot extend it
  end
  if ttl <= 0 then return end
  for _, key in ipairs({ l.free, l.log, l.basis }) do redis.call('pexpire', key, ttl) end
end
