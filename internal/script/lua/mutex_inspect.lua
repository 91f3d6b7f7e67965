-- Look at a mutex without touching it.
-- KEYS  1 the lock
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), then owner, count, ...
local seen = { redis.call('pttl', KEYS[1]) }
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'leader' then -- what the leader of an election says of itself
    seen[#seen + 1] = fields[i]
    seen[#seen + 1] = fields[i + 1]
  end
end
return seen
