-- Take permits, now or ahead of time. Running it twice does what running it once does.
-- KEYS  1 the rate
--       2 free permits, 3 those of the client
--       4 the log of what was taken, 5 that of the client
--       6 the rate for which the client counts
-- ARGV  1 how many
--       2 id of the request, 16 bytes
--       3 how far ahead they may be taken, in ms; less than zero: as far as it takes
-- RETURN   1, and the ms until they may be used
--          0, and the ms until asking again may help
--         -1, 0     there is no rate
--         -2, rate  more than the rate
local l = configured(KEYS)
if not l then return { -1, 0 } end
local want, now, longest = tonumber(ARGV[1]), clock(), tonumber(ARGV[3])
if want > l.rate then return { -2, l.rate } end
local entry = struct.pack(PACK, #ARGV[2], ARGV[2], want)
local at = tonumber(redis.call('zscore', l.log, entry) or nil)
local taken = 1
if not at then
  local lack = want - available(l, now)
  at = now
  -- Those who came before have taken what is free, or will be; each entry is free an interval later, and is one permit at least.
  -- So many of the oldest must be over, or all but so many of the newest: whichever is less to look at.
  local room = l.rate - want
  local walk = (lack <= room or room >= MOST) and 'zrange' or 'zrevrange'
  local entries = lack > 0 and redis.call(walk, l.log, 0, math.min(lack, MOST) - 1, 'withscores') or {}
  for i = 1, #entries, 2 do
    if lack <= 0 or room < 0 then break end
    local _, n = unpack(l.log, entries[i])
    if walk == 'zrange' then lack = lack - n else room = room - n end
    at = math.max(now, math.ceil(entries[i + 1]) + l.interval + 1)
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
return { taken, math.max(math.ceil(at - now), 0) }
