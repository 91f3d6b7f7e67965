-- Look at a read/write lock without touching it.
-- KEYS  1 the lock
--       2 what the names of all readers' keys begin with
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), the mode, then for each owner
--         its field, its count and the ms that it has left (-2: it has no time of its own, or is dead)
local seen = {redis.call('pttl', KEYS[1]), redis.call('hget', KEYS[1], 'mode') or ''}
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if field ~= 'mode' then
    local count = tonumber(redis.call('hget', KEYS[1], field)) or 0
    local longest = -2
    for n = 1, count do
      longest = math.max(longest, redis.call('pttl', KEYS[2] .. ':' .. field .. ':rwlock_timeout:' .. n))
    end
    table.insert(seen, field)
    table.insert(seen, count)
    table.insert(seen, longest)
  end
end
return seen
