-- fields returns the remaining ms of a hash, then its fields and their values: of many fields only the first, and '' instead of
-- a value that is too long for a count. It leaves out what the leader of an election says of itself.
local function fields(key)
  local seen = { redis.call('pttl', key) }
  local names = {}
  if redis.call('hlen', key) <= 100 then
    names = redis.call('hkeys', key)
  else
    for i, name in ipairs(redis.call('hscan', key, 0, 'count', 10)[2]) do
      if i % 2 == 1 then names[#names + 1] = name end
    end
  end
  for _, name in ipairs(names) do
    if name ~= 'leader' then
      seen[#seen + 1] = name
      seen[#seen + 1] = redis.call('hstrlen', key, name) <= 20 and redis.call('hget', key, name) or ''
    end
  end
  return seen
end
