-- Take permits, now or in advance. Idempotent.
-- USES  allow int64 ratelimiter
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of taken permits, 5 that of the client
--       6 the rate that the client's count is based on
-- ARGV  1 how many
--       2 id of the request, 16 bytes
--       3 how far in advance they may be taken, in ms; negative: no limit
--       4 0 if the log need not be read, because a grant has just read it: entries that are over may stay
-- RETURN  1 they may be used at once
--         2 the same, but the log was not read
--         or a list:
--          1, and the ms until they may be used
--          0, the ms until a retry may succeed, and the rate
--         -1, 0     there is no rate
--         -2, rate  more permits than the rate
local l = configured(KEYS)
if not l then return { -1, 0 } end
if want > l.rate then return { -2, l.rate } end
local at = tonumber(redis.call('zscore', l.log, entry) or nil)
local taken = 1
if not at then
  local lack = want - available(l, now)
  at = now
  -- Earlier requests have taken the free permits. An entry has at least one permit, which becomes free an interval after it. So
  -- either the oldest entries with lack permits must be over, or all but the newest entries with room permits. The script walks the
  -- direction with fewer entries.
  local room, read, most = l.rate - want, 0, math.min(lack, MOST)
  local walk = (lack <= room or room >= MOST) and 'zrange' or 'zrevrange'
  while lack > 0 and room >= 0 and read < most do
    local part = walk == 'zrange' and most or math.min(room + 1, most - read) -- more only if entries have no permits
    local entries = redis.call(walk, l.log, read, read + part - 1, 'withscores')
    for i = 1, #entries, 2 do
      if lack <= 0 or room < 0 then break end
      local _, n = unpack(l.log, entries[i])
      if walk == 'zrange' then lack = lack - n else room = room - n end
      at = math.max(now, math.ceil(entries[i + 1]) + l.interval + 1)
    end
    if #entries < 2 * part then break end
    read = read + part
  end
  if room < 0 then lack = 0 end
  if lack > 0 or longest >= 0 and at - now > longest then
    taken, at = 0, math.max(at, now + 1)
  else
    redis.call('zadd', l.log, at, entry)
    redis.call('decrby', l.free, want)
  end
end
keepAlive(l, KEYS, now)
if taken == 1 and at <= now then return 1 end
return { taken, math.ceil(at - now), taken == 0 and l.rate or nil }
