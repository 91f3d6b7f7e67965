-- Return the state of a read/write lock without changing it.
-- USES  foreign rwmutex readers
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 an owner that is always listed, or ''
-- RETURN  a list: the remaining ms (-1: never expires, -2: not held), the mode, then for each owner
--         its field, its count and its remaining ms (-2: it has no lease of its own, or is dead); if there are many
--         readers, only some of them
local ttl = redis.call('pttl', KEYS[1])
if ttl == -2 then return {ttl, ''} end
local mode = redis.call('hstrlen', KEYS[1], 'mode') <= 5 and redis.call('hget', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' or not joinable(KEYS[1], 0) then return foreign(KEYS[1]) end -- before the whole hash is read
local seen = {ttl, mode}
-- add reports whether a field belongs to a lock.
local function add(field, value)
  local is = party(field, value)
  if not is or is == 'mode' then return is end
  local remaining = is == 'writer' and -2 or remains(KEYS[2] .. ':' .. field .. ':rwlock_timeout', value, ttl)
  seen[#seen + 1] = field
  seen[#seen + 1] = tonumber(value)
  seen[#seen + 1] = remaining == 0 and -2 or remaining
  return is
end
local own = ARGV[1] ~= '' and redis.call('hget', KEYS[1], ARGV[1])
if own and not add(ARGV[1], own) then return foreign(KEYS[1]) end
local found, cursor = nil, '0'
repeat
  found, cursor = page(KEYS[1], cursor)
  for i = 1, #found, 2 do
    if not (own and found[i] == ARGV[1]) and not add(found[i], found[i + 1]) then return foreign(KEYS[1]) end
  end
until cursor == '0' or #seen > 3000 or steps <= 0
return seen
