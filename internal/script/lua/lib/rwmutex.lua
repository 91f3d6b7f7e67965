-- The readers of a read/write lock.
-- The lock is a hash: mode -> read or write, a reader -> its count, a writer with :write appended -> its count.
-- Each hold of a reader has a key of its own, whose TTL is that of the hold. The count is stored data and is not trusted: a reader
-- counts as alive while the hash exists if its count is not 1 to DEPTH, or if there is too much to check.
local DEPTH = 1000 -- the maximum hold count of a reader
local FEW = 100    -- a call checks all readers if there are at most so many
local steps = 2000 -- a call checks at most so many fields and keys of readers: enough for any single reader

-- depth returns the hold count of a reader by the value of its field, or nil if the value is not 1 to DEPTH.
local function depth(value)
  local count = tonumber(string.match(value, '^[1-9]%d?%d?%d?$') or nil)
  return count and count <= DEPTH and count or nil
end

-- party returns the kind of a field by its name and value: 'mode', 'reader' or 'writer'. It returns nil if neither Redisson nor
-- Holdfast writes such a field.
local function party(field, value)
  if field == 'mode' then return field end
  if #field > 500 or not string.find(value, '^[1-9]%d?%d?%d?%d?$') then return nil end -- do not run patterns on a long text
  return string.find(field, ':%d+$') and 'reader' or string.find(field, ':%d+:write$') and 'writer' or nil
end

-- page returns a list of fields and values, and the cursor of the next page, '0' after the last one.
local function page(lock, cursor)
  local found = redis.call('hscan', lock, cursor, 'count', 10)
  return found[2], found[1]
end

-- sample returns n fields with their values, or all if there are fewer.
local function sample(lock, n)
  local found = redis.pcall('hrandfield', lock, n, 'withvalues')
  return found.err and page(lock, '0') or found -- Redis 6.0 does not support it
end

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

-- settle changes the mode to read after the writer has released the lock, or deletes the lock if there are no readers. It reports
-- whether there are.
local function settle(lock, root)
  local ttl = redis.call('pttl', lock)
  local longest = readers(lock, root, ttl)
  if longest == 0 then
    redis.call('del', lock)
    return false
  end
  redis.call('hset', lock, 'mode', 'read')
  if longest ~= ttl and longest < math.huge then redis.call('pexpire', lock, longest) end
  return true
end

-- left publishes that a writer has released the lock, and returns how many clients received the message. The message 1 wakes all
-- sleeping threads of Redisson. A thread that has tried to acquire and does not sleep yet would miss it and wait for the whole lease.
-- The message 0 is kept for this thread.
local function left(publish, channel)
  local heard = redis.call(publish, channel, '1')
  redis.call(publish, channel, '0')
  return heard
end

-- joinable reports whether a hash with the mode read can be a lock, by some of its fields. A lock without an expiry is rare, so its
-- owners must look like those of Redisson and Holdfast.
local function joinable(lock, ttl)
  local found, owners = sample(lock, 3), 0 -- few, since the fields of other data may be long
  for i = 1, #found, 2 do
    local is = party(found[i], found[i + 1])
    if not is or is ~= 'mode' and ttl == -1 and not string.find(found[i], '^%x+%-%x+%-%x+%-%x+%-%x+:') then return false end
    if is ~= 'mode' then owners = owners + 1 end
  end
  return owners > 0 or redis.call('hlen', lock) > 1
end
