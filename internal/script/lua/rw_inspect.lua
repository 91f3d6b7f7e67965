-- Look at a read/write lock without touching it.
-- KEYS  1 the lock
--       2 what the names of all readers' keys begin with
-- ARGV  1 an owner that is listed in any case, or ''
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), the mode, then for each owner
--         its field, its count and the ms that it has left (-2: it has no time of its own, or is dead); of many readers
--         only some
local ttl = redis.call('pttl', KEYS[1])
local strange = false
local seen = {ttl, redis.call('hget', KEYS[1], 'mode') or ''}
local function add(field, value)
  local is = party(field, value)
  if is == 'mode' then return end
  strange = strange or not is
  local remaining = is == 'writer' and -2 or remains(KEYS[2] .. ':' .. field .. ':rwlock_timeout', value, ttl)
  seen[#seen + 1] = field
  seen[#seen + 1] = tonumber(value) or 0
  seen[#seen + 1] = remaining == 0 and -2 or remaining
end
local own = ARGV[1] ~= '' and redis.call('hget', KEYS[1], ARGV[1])
if own then add(ARGV[1], own) end
local found, cursor = nil, '0'
repeat
  found, cursor = page(KEYS[1], cursor)
  for i = 1, #found, 2 do
    if not own or found[i] ~= ARGV[1] then add(found[i], found[i + 1]) end
  end
until cursor == '0' or #seen > 3000 or steps <= 0
-- A hash without a mode is a lock of another kind.
return strange and seen[2] ~= '' and foreign(KEYS[1]) or seen
