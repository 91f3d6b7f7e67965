-- Return the state of a rate limiter, without changing it.
-- USES  clock
-- KEYS  1 the rate
--       and, unless they are in other slots:
--       2 free permits, 3 the log of taken permits
-- RETURN  nothing, if it has no rate that can be read; or
--         rate, interval in ms, 1 if per client else 0, ms that it is kept unused
--         the permits that were taken or reserved in the last interval; -1 if that is unknown
local MOST = 1000 -- the log entries to read at most
local PACK = 'Bc0I'
local function natural(text) return text and #text <= 16 and string.find(text, '^%d+$') and tonumber(text) <= 2 ^ 53 and tonumber(text) end
local function field(name)
  if redis.call('hstrlen', KEYS[1], name) > 16 then return nil end
  return redis.call('hget', KEYS[1], name)
end
if redis.call('type', KEYS[1]).ok ~= 'hash' then return {} end
local rate, interval, own, keep = natural(field('rate')), natural(field('interval')), field('type'), natural(field('keepAliveTime') or '0')
if not (rate and interval and keep and (own == '0' or own == '1')) then return {} end

-- sum returns the number of permits in log entries, or nil if they cannot be read.
local function sum(first, last)
  if last - first >= MOST then return nil end
  local permits = 0
  for i = first, last do
    local entry = redis.call('zrange', KEYS[3], i, i)[1]
    if not entry or #entry > 260 or #entry == 0 or #entry ~= 5 + string.byte(entry) then return nil end
    local _, n = struct.unpack(PACK, entry)
    permits = permits + n
  end
  return permits
end
-- taken returns the permits of the entries of the last interval. If there are too many, it uses the number of free permits, which
-- lacks only those of the entries before.
local function taken()
  local total = redis.call('zcard', KEYS[3])
  local live = redis.call('zcount', KEYS[3], string.format('(%.0f', clock() - interval - 1), '+inf')
  local used = sum(total - live, total - 1)
  if used then return used end
  local over, free = sum(0, total - live - 1), redis.call('strlen', KEYS[2]) <= 16 and natural(redis.call('get', KEYS[2]) or nil)
  return over and free and math.max(rate - free - over, 0) or -1
end
local used = -1
if own == '0' and KEYS[3] then
  local read, n = pcall(taken)
  if read then used = n end
end
return { rate, interval, tonumber(own), keep, used }
