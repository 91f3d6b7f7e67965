-- How long the readers of a read/write lock last.

-- remains returns the longest TTL of the holds of a reader, 0 if none is alive. The parameter life is the TTL of the hash.
local function remains(own, value, life)
  local count, longest = depth(value), 0
  if not count or count > steps then return life end
  steps = steps - count
  for n = count, 1, -1 do
    local ttl = redis.call('pttl', own .. ':' .. n)
    if ttl == -1 then return life end
    longest = math.max(longest, ttl)
  end
  return longest
end

-- readers removes the dead readers that it finds. It returns how long the last reader lasts, 0 if none is alive, and whether it has
-- found one that is alive. The parameter root is the prefix of all readers' keys, and ttl is the TTL of the hash. If there are many
-- readers, the search ends at the first that is alive, and the hash keeps its TTL: it may outlast its last reader, but must not
-- expire before it.
local function readers(lock, root, ttl)
  local life = ttl == -1 and math.huge or ttl
  local many = redis.call('hlen', lock) > FEW + 1
  local longest, dead, strange, missed = 0, {}, false, false
  local function look(found)
    for i = 1, #found, 2 do
      local is = party(found[i], found[i + 1])
      strange = strange or not is
      steps = steps - 1
      if strange or steps < (is == 'reader' and depth(found[i + 1]) or 0) or many and longest > 0 then
        missed = true
        return
      end
      if is == 'reader' then
        local own = remains(root .. ':' .. found[i] .. ':rwlock_timeout', found[i + 1], life)
        if own == 0 then dead[#dead + 1] = found[i] end
        longest = math.max(longest, own)
      end
    end
  end
  if many then look(sample(lock, 10)) end
  local found, cursor = nil, '0'
  while not missed and not (many and longest > 0) do
    found, cursor = page(lock, cursor)
    look(found)
    if cursor == '0' then break end
  end
  -- A hash with an unknown field is not changed.
  if strange then return life, true end
  if #dead > 0 then redis.call('hdel', lock, unpack(dead)) end
  if missed or many and longest > 0 then return math.max(longest, life), longest > 0 end
  return longest, longest > 0
end
