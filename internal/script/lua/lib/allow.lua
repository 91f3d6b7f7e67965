-- The usual request for permits: all clients share a rate that is kept for ever, the count of free permits is sound, and no entry of
-- the log is over. It precedes all functions, since these cost a request as much as its commands. In all other cases it writes nothing.
-- KEYS, ARGV and RETURN are those of ratelimiter_take.
local c, t = redis.call('hmget', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime'), redis.call('time')
local now, want, longest = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[1]), tonumber(ARGV[3])
local entry = struct.pack('Bc0I', #ARGV[2], ARGV[2], want)
local count = c[1] and c[2] and c[3] == '0' and (not c[4] or c[4] == '0') and redis.call('get', KEYS[2])
if count and string.find(c[1] .. ' ' .. c[2] .. ' ' .. count, '^%d+ %d+ %d+$') and (count == '0' or string.byte(count) ~= 48) then
  local rate, interval, free = tonumber(c[1]), tonumber(c[2]), tonumber(count)
  local sound = rate <= 2 ^ 53 and interval <= 2 ^ 53 and want <= rate and free <= rate
  local first, at
  if ARGV[4] ~= '0' or free < want then
    local oldest = redis.call('zrange', KEYS[4], '0', '0', 'withscores')
    first, at = oldest[1] or '', tonumber(oldest[2])
    sound = sound and at and #first == 5 + (string.byte(first) or 0) and at > now - interval - 1 and redis.call('pttl', KEYS[1]) < 0
  end
  if sound and free >= want then
    -- A repeated request has an entry already. A server that is out of memory refuses the first write only.
    if redis.call('zadd', KEYS[4], 'nx', t[1] .. string.format('%03d', t[2] / 1000), entry) == 1 then
      redis.call('decrby', KEYS[2], ARGV[1])
      return first and 1 or 2
    end
  elseif sound and longest >= 0 and not redis.call('zscore', KEYS[4], entry) then
    local _, n = struct.unpack('Bc0I', first)
    local wait = math.ceil(at) + interval + 1 - now
    if free + n >= want and wait > longest and wait <= 2 ^ 53 then return { 0, wait, rate } end
  end
end
